"""What pages say: from the store's results to the content of a page.

One module a page, pure functions over frozen objects: no request, no database,
no HTML.  What comes out is the JSON twin as it stands, in base units, and all
that the page's template shows.
"""
