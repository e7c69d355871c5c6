"""What the pages of a suite's site show, and where they are: `dpicl.leaderboards.render.html` puts a site together.

`addresses` names the files; `row_page` and `mechanism_page` say what the pages behind the board show; `comparison`
compares rows in pairs; `downloads` makes the CSV and JSON files. Words and tags are in render/templates,
the rules for every page in render/page.py.
"""
