"""Reports as one self-contained HTML file."""

from cavity.report.content import comparison_page, model_page
from cavity.report.page import DataTable, Facts, Page, Picture, Text
from cavity.report.study import study_page

__all__ = ["DataTable", "Facts", "Page", "Picture", "Text", "comparison_page", "model_page", "study_page"]
