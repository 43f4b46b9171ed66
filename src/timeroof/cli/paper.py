"""`timeroof paper`: the paper's own data, judged and drawn."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from timeroof.cli.options import JsonTarget, PageTarget, RunTarget, folder_option

FOLDER = "timeroof-paper"


class PictureFormat(StrEnum):
    """File formats of pictures."""

    PNG = "png"
    SVG = "svg"
    PDF = "pdf"


def paper(
    out: Annotated[Path | None, folder_option(FOLDER)] = None,
    json: JsonTarget = None,
    html: PageTarget = None,
    save: RunTarget = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(help="Draw only this figure; may be repeated. 'list' prints all names."),
    ] = None,
    format: Annotated[  # noqa: A002
        PictureFormat, typer.Option(help="Format of the pictures.")
    ] = PictureFormat.PNG,
) -> None:
    """Analyse and draw the paper's 264 published V100 measurements (arXiv 2009.04598).

    Shows the authors' twelve figures and further ones. Says what the numbers show about arithmetic
    intensity, cache locality, auto-tuning, launch overhead and tensor cores.

    Example: `timeroof paper --figure conv2d_time_batch --format pdf --out figures`
    """
    from timeroof.cli.main import progress_bar
    from timeroof.cli.options import check_outputs, keep_inputs, write_json, write_outputs
    from timeroof.paper.build import TITLE, chosen_figures, write_folder
    from timeroof.study.factors.published import paper_report
    from timeroof.study.output.paper_page import paper_page
    from timeroof.views.run_summary import print_summary
    from timeroof.views.terminal import console, print_titles

    if figure == ["list"]:
        for known in chosen_figures(None):
            typer.echo(known.name)
        return
    figures = chosen_figures(figure)
    if out is None and (figure or (json is None and save is None and html is None)):
        out = Path(FOLDER)
    check_outputs(json=json, html=html, save=save, out=out)
    keep_inputs((), (json, html, save))
    report = paper_report()
    if json is not None:
        write_json(report.to_json(), json)
    write_outputs(report, html=html, save=save)
    if out is not None:
        with progress_bar("drawing", len(figures)) as advance:
            text = None if figure else paper_page(report, TITLE, figures, format.value)
            page = write_folder(report, out, figures, format.value, advance, page=text)
    print_summary(report)
    print_titles(report.findings)
    if out is not None:
        what = "1 figure" if len(figures) == 1 else f"{len(figures)} figures"
        console(stderr=True).print(f"\n{what} in {out}; open {page}", soft_wrap=True)
