"""The least a click program can be; what our start is measured against."""

import click


@click.group()
@click.version_option("1.0", prog_name="bare")
def cli() -> None:
    """Do nothing."""


if __name__ == "__main__":
    cli()
