"""Charts: one description, two renderers.

`figure` holds the description (plain numbers and words), `svg` draws it on the
server, `plotly_json` writes the same thing for Plotly in the browser.  The
other modules turn rows of results into descriptions.  Nothing here asks the
database, knows a request, or decides what is worth showing.
"""
