"""The report as one file of HTML that opens from disk: data, charts, table and words."""

from timeroof.views.page.page import html_page, notebook_html

__all__ = ["html_page", "notebook_html"]
