"""The static site of a suite: what its pages show, and where they are.

`addresses` names the files; `sections` says what the board's page shows, `row_page` and `mechanism_page` the pages
behind it; `comparison` compares rows in pairs; `downloads` makes the CSV and JSON files; `suites_page` is the list of
all suites. The words and tags are in leaderboards/templates, the rules for every page in leaderboards/render/page.py;
`dpicl.leaderboards.render.html` puts a site together.
"""
