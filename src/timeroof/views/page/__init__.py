"""The report as one file of HTML that opens from disk: data, charts, table and words."""

from timeroof.views.page.notebook import notebook_html
from timeroof.views.page.page import html_page

__all__ = ["html_page", "notebook_html"]
