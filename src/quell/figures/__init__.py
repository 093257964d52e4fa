"""Every figure, in one style: a method has one colour, line and hatch wherever it is drawn, the HTML report included.

style   palette, axes, saving       runs      learning curves, and bars of what was gained
theory  Theorem 1                   variance  what `quell variance` measured

matplotlib is imported when something is drawn, and nowhere else in quell.
"""

from quell.figures.runs import curves

__all__ = ["curves"]
