"""`python -m tests.compatibility` writes docs/COMPATIBILITY.md."""

from tests.compatibility import page

page.PAGE.write_text(page.text(), encoding="utf-8")
for claim in sorted(page.unproven()):
    print(f"no test proves {claim}")
