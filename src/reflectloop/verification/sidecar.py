"""Run a check with a server: started in the same sandbox, awaited on its loopback address, ended with the check."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from reflectloop.config import Service
from reflectloop.sandbox.sandbox import SHELL

# Both commands are passed as arguments, so the shell never interprets them. Status 125: the server did not start.
_WITH_SERVICE = r"""
host=$1 port=$2 path=$3 limit_s=$4 count=$5; shift 5
"${@:1:count}" > "${TMPDIR:-/tmp}/service.log" 2>&1 &
service=$!
trap 'kill -- "$service" 2> /dev/null' EXIT
ready=
for ((turn = 0; turn < limit_s * 10; turn++)); do
  if { exec 3<> "/dev/tcp/$host/$port"; } 2> /dev/null; then
    printf 'GET %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n' "$path" "$host" >&3
    IFS= read -r -t 5 line <&3 && [[ $line == HTTP/*" "[23]* ]] && ready=yes
    exec 3>&-
    [[ $ready ]] && break
  fi
  kill -0 "$service" 2> /dev/null || break
  sleep 0.1
done
if [[ ! $ready ]]; then
  echo "the service did not answer at http://$host:$port$path; it printed:" >&2
  tail -n 20 "${TMPDIR:-/tmp}/service.log" >&2
  exit 125
fi
"${@:count+1}"
"""
_PORT = 80


def beside(service: Service | None, command: str | Sequence[str]) -> str | tuple[str, ...]:
    """Return the command that starts the service, waits until it answers, then runs the check."""
    if service is None:
        return command if isinstance(command, str) else tuple(command)
    argv = [*SHELL, command] if isinstance(command, str) else list(command)
    url = urlsplit(service.ready_url)
    port = url.port or _PORT
    numbers = (str(port), url.path or "/", str(service.timeout_s), str(len(service.run)))
    return ("bash", "-c", _WITH_SERVICE, "service", url.hostname or "127.0.0.1", *numbers, *service.run, *argv)
