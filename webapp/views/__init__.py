"""One blueprint a subject: a view fetches, has the content made, and returns a page."""
