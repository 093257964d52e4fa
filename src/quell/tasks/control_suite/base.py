"""What the DeepMind Control Suite's tasks share: its model files, how it steps, and its reward shapes.

Of the installed package only these files are used: its Python would take seconds and, for terrain, an OpenGL context.
"""

import xml.etree.ElementTree as ET
from typing import Any

from quell.errors import require
from quell.tasks.base import MujocoTask, folder_of, within

SKY = "./common/skybox.xml"
SHARED_FILES = ("./common/materials.xml", SKY, "./common/visual.xml")


class ControlSuiteTask(MujocoTask):
    """A task of the Control Suite: 1000 steps, no termination, rewards in [0, 1]."""

    extra = "dm"
    domain: str  # the suite's name of the model

    @property
    def original(self) -> str:
        """Our names are dm-domain-task."""
        return f"dm_control:{self.domain}/{self.name.removeprefix(f'dm-{self.domain}-').replace('-', '_')}"

    def model(self) -> Any:
        from quell.tasks.mujoco import load_model

        require("dm", f"task {self.name!r}")
        folder = folder_of("dm_control") / "suite"
        mjcf = ET.parse(folder / f"{self.domain}.xml").getroot()
        self.adapt(mjcf)
        assets = {name: (folder / name).read_bytes() for name in SHARED_FILES}
        sky = ET.fromstring(assets[SKY])
        for texture in sky.iter("texture"):  # as shipped, 12 MiB of every model; a gradient needs few pixels
            texture.attrib.update(width="64", height="64")
        assets[SKY] = ET.tostring(sky)
        return load_model(ET.tostring(mjcf, encoding="unicode"), assets=assets)

    def adapt(self, mjcf: Any) -> None:
        """Edit the domain's model for this task, in place."""


def rise(xp: Any, x: Any, target: float, margin: float, at_margin: float = 0.0) -> Any:
    """1 from `target` upwards; below, a straight line through `at_margin` at `target - margin` down to 0."""
    return within(xp, 1 - (1 - at_margin) * (target - x) / margin, 0, 1)


def bell(xp: Any, x: Any, margin: float) -> Any:
    """A Gaussian bump: 1 at zero, 0.1 = exp(-2.3...) at +-margin."""
    return xp.exp(-2.302585092994046 * xp.square(x / margin))


def dome(xp: Any, x: Any) -> Any:
    """1 - x^2 inside [-1, 1], 0 outside."""
    return xp.maximum(1 - xp.square(x), 0)
