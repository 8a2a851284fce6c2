"""Reports as one self-contained HTML file."""

from cavity.report.content import comparison_page, model_page
from cavity.report.page import DataTable, Facts, Page, Picture, Text

__all__ = ["DataTable", "Facts", "Page", "Picture", "Text", "comparison_page", "model_page"]
