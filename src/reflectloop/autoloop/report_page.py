"""The morning report as one HTML page without links to anything outside: tables, and plots as inline SVG."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from reflectloop import languages, secrets
from reflectloop.autoloop.night_report import GROUPS, NightReport, ReportRow, money

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
table{border-collapse:collapse;width:100%}
td,th{border-bottom:1px solid #ddd;padding:.3rem .5rem;text-align:left;vertical-align:top}
code{background:#f3f3f3;padding:0 .2rem;overflow-wrap:anywhere}svg{max-width:100%;height:auto}
@media(prefers-color-scheme:dark){
body{color:#ddd;background:#181818}code{background:#333}td,th{border-color:#444}text{fill:#ddd}}
"""
_WIDTH, _BAR, _LABEL = 720, 22, 240
_MOST_BARS = 60


def page(report: NightReport) -> str:
    """Return the page. Everything that a task or an agent named is escaped, and secrets are redacted."""
    title = _translated(f"Report since {report.since}")
    body = [f"<h1>{title}</h1>", f"<p>{_translated(_totals(report))}</p>", *_counts(report)]
    priced = [row for row in report.rows if row.usd]
    timed = [row for row in report.rows if row.elapsed_s]
    body += _plot("Cost of each task (USD)", [(row, row.usd) for row in priced], "{:.4f}")
    body += _plot("Time of each task (s)", [(row, row.elapsed_s) for row in timed], "{:.0f}")
    body += _running_cost(report)
    for name in GROUPS:
        body += _table(name, report.of_group(name))
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    text = f"<!doctype html><html><head>{head}<style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    return secrets.current_detector().redact(text)


def _translated(text: str) -> str:
    return html.escape(languages.line(text))


def _totals(report: NightReport) -> str:
    totals = report.totals
    return f"Agents: {totals['calls']} call(s), {totals['tokens']} tokens, {money(totals)}, {totals['agent_s']} s"


def _counts(report: NightReport) -> Iterator[str]:
    yield "<ul>"
    yield from (f"<li>{_translated(f'{name}: {len(report.of_group(name))}')}</li>" for name in GROUPS)
    yield "</ul>"


def _table(name: str, rows: Sequence[ReportRow]) -> Iterator[str]:
    if not rows:
        return
    yield f"<h2>{_translated(name)}</h2><table>"
    for row in rows:
        command = f"<br><code>{html.escape(row.next_command)}</code>" if row.next_command else ""
        reason = f"<br>{_translated(row.reason)}" if row.reason else ""
        cost = html.escape(f"{row.elapsed_s:.0f} s, {money(row._asdict())}")
        name_of = html.escape(row.title or row.entry)
        yield f"<tr><td><b>{name_of}</b>{reason}{command}</td><td>{html.escape(row.task_id or row.entry)}</td>"
        yield f"<td>{cost}</td></tr>"
    yield "</table>"


def _plot(title: str, bars: Sequence[tuple[ReportRow, float]], form: str) -> Iterator[str]:
    """Yield a plot of horizontal bars, the longest first."""
    if not bars:
        return
    shown = sorted(bars, key=lambda bar: -bar[1])[:_MOST_BARS]
    most = shown[0][1]
    yield f"<h2>{_translated(title)}</h2>"
    yield f'<svg viewBox="0 0 {_WIDTH} {_BAR * len(shown)}" role="img" font-size="12">'
    for number, (row, value) in enumerate(shown):
        top = number * _BAR
        length = (_WIDTH - _LABEL - 80) * value / most
        label = html.escape((row.title or row.entry)[:34])
        yield f'<text x="0" y="{top + 15}">{label}</text>'
        yield f'<rect x="{_LABEL}" y="{top + 3}" width="{length:.1f}" height="{_BAR - 6}" fill="#3b7dd8"/>'
        yield f'<text x="{_LABEL + length + 4:.1f}" y="{top + 15}">{form.format(value)}</text>'
    yield "</svg>"


def _running_cost(report: NightReport) -> Iterator[str]:
    """Yield the cost of all tasks together over time, as a line."""
    charges = sorted((charge for row in report.rows for charge in row.charges), key=lambda charge: charge.at)
    total = sum(charge.usd for charge in charges)
    if not total:
        return
    points, spent = [(0.0, 0.0)], 0.0
    for number, charge in enumerate(charges, 1):
        spent += charge.usd
        points.append((number / len(charges), spent / total))
    line = " ".join(f"{40 + (_WIDTH - 60) * x:.1f},{150 - 130 * y:.1f}" for x, y in points)
    yield f"<h2>{_translated('Cost of all tasks, call by call (USD)')}</h2>"
    yield f'<svg viewBox="0 0 {_WIDTH} 170" role="img" font-size="12"><polyline points="{line}" fill="none" '
    yield f'stroke="#3b7dd8" stroke-width="2"/><text x="0" y="18">{total:.4f}</text><text x="0" y="165">'
    yield f'{html.escape(charges[0].at)}</text><text x="{_WIDTH - 170}" y="165">'
    yield f"{html.escape(charges[-1].at)}</text></svg>"
