"""Help texts whose options are in sections."""

from __future__ import annotations

from typing import ClassVar

import click


class DataOption(click.Option):
    """An option that says how to read and encode the data."""

    section: ClassVar[str] = "Options for reading and encoding data"


class RunOption(click.Option):
    """An option that says where the command runs, and what it reports meanwhile."""

    section: ClassVar[str] = "Options for the run"


class Sectioned(click.Command):
    """A command whose help text has its own options first, then those that commands share."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, one section after the other."""
        sections: dict[str, list[tuple[str, str]]] = {
            "Options": [],
            DataOption.section: [],
            RunOption.section: [],
        }
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None or isinstance(param, click.Argument):
                continue  # the usage line and the text name the arguments
            if isinstance(param, DataOption | RunOption):
                sections[param.section].append(record)
            else:
                section = RunOption.section if "--help" in param.opts else "Options"
                sections[section].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
