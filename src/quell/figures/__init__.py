"""Every figure, in one style: a method has one colour, line and hatch wherever it is drawn, the HTML report included.

style  palette, axes, saving        runs  curves of runs        paper  the paper's figures
theory  Theorem 1                   variance  what `quell variance` measured

matplotlib is imported when something is drawn, and nowhere else in quell.
"""

from quell.figures.runs import curves

__all__ = ["curves"]
