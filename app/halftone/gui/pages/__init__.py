"""One module per page of the window, or several where a page has large parts."""
