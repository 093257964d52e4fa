"""How MuJoCo's models are filmed: a camera fitted to the robot, a calm floor without end, soft light.

Only a copy of the model is dressed, so that physics stays what it is.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import mujoco
import numpy as np

from quell.tasks.base import FLOOR, SKY, TILE, Array

FOV = 40.0  # degrees, from bottom to top
AROUND = 1.16  # the picture, over the box that holds the robot in every pose of a film
LOWEST, HIGHEST = 8.0, 40.0  # degrees by which the camera looks down
SIDE = (90.0, 12.0)  # where a model has no camera that follows: from its right-hand side, and a little above
SMOOTH = 0.5  # seconds over which the camera averages where the robot is
LIGHT = (0.5, 0.35, -1.4)  # where it shines, and how far away it stands, in heights of the picture
GROUND = (int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_HFIELD))
FOLLOWING = (int(mujoco.mjtCamLight.mjCAMLIGHT_TRACK), int(mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM))


class Studio:
    """Draws one episode of a model, given by its poses (qpos) `apart` seconds from each other."""

    def __init__(self, model: Any, poses: Sequence[Array], apart: float, width: int, height: int) -> None:
        self._model, self._data = dressed(model, width, height), mujoco.MjData(model)
        self._poses, self._apart = poses, apart
        self._geoms, self._base = robot_of(model)
        self._camera = mujoco.MjvCamera()
        azimuth, down = angles_of(model)
        self._camera.azimuth, self._camera.elevation = azimuth, -down
        self._fit(width / height)
        self.renderer = mujoco.Renderer(self._model, height, width)

    def pictures(self, per_second: float) -> Iterator[Array]:
        """So many pictures for every second, whatever the time between two poses: one in between is interpolated."""
        last = len(self._poses) - 1
        for one in range(int(last * self._apart * per_second + 1e-6) + 1):
            yield self.draw(one / per_second)

    def draw(self, seconds: float) -> Array:
        """The picture at this time of the episode."""
        before = min(int(seconds / self._apart + 1e-6), len(self._poses) - 1)
        after, part = min(before + 1, len(self._poses) - 1), seconds / self._apart - before
        self._take(between(self._model, self._poses[before], self._poses[after], part))
        place = (1 - part) * self._track[before] + part * self._track[after]
        self._camera.lookat[:] = place + self._offset
        self.renderer.update_scene(self._data, self._camera)
        self._light()
        if not (self._model.tex_type == mujoco.mjtTexture.mjTEXTURE_SKYBOX).any():
            self._hang_a_sky()
        return np.array(self.renderer.render())

    def mask(self, seconds: float) -> Array:
        """Where the robot is in that picture."""
        self.renderer.enable_segmentation_rendering()
        what, kind = self.draw(seconds).transpose(2, 0, 1)
        self.renderer.disable_segmentation_rendering()
        return (kind == mujoco.mjtObj.mjOBJ_GEOM) & np.isin(what, self._geoms)

    def _light(self) -> None:
        scene = self.renderer.scene
        scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        for light in scene.lights[: scene.nlight]:
            if not light.headlight:  # shadows fall near the place below it
                light.pos[:] = self._camera.lookat - np.array(LIGHT) * self._model.stat.extent

    def _hang_a_sky(self) -> None:
        """A wall far behind the robot, where the model would leave the background black."""
        scene, camera, size = self.renderer.scene, self._camera, 20 * self._model.stat.extent
        right, up = axes(camera.azimuth, camera.elevation)
        towards = np.cross(right, up)
        wall, colour = scene.geoms[scene.ngeom], np.array([*SKY, 255]) / 255
        across = np.stack([right, up, towards], axis=1).ravel()
        box = np.array([size, size, 0.01 * size]), camera.lookat - towards * size / 2, across
        mujoco.mjv_initGeom(wall, mujoco.mjtGeom.mjGEOM_BOX, *box, colour.astype(np.float32))
        wall.emission, wall.specular = 0, 0
        scene.ngeom += 1

    def _take(self, pose: Array) -> None:
        self._data.qpos[:] = pose
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)

    def _fit(self, aspect: float) -> None:
        """Follow the robot's base smoothly, and stand where the box of all that it does around it fills the picture."""
        centres, bases = [], []
        for pose in self._poses:
            self._take(pose)
            centres.append(self._data.geom_xpos[self._geoms].copy())
            bases.append(self._data.xpos[self._base].copy())
        self._track = smooth(np.array(bases), round(SMOOTH / self._apart))
        relative, radius = np.array(centres) - self._track[:, None], self._model.geom_rbound[self._geoms]
        right, up = axes(self._camera.azimuth, self._camera.elevation)
        (left, rightmost), (bottom, top) = (
            (float((relative @ axis - radius).min()), float((relative @ axis + radius).max())) for axis in (right, up)
        )
        tall = max(top - bottom, (rightmost - left) / aspect) * AROUND
        self._camera.distance = tall / 2 / np.tan(np.radians(FOV / 2))
        self._offset = right * (left + rightmost) / 2 + up * (bottom + top) / 2
        self._model.stat.extent = tall  # the unit of how far is drawn, and where shadows fall


def robot_of(model: Any) -> tuple[Array, int]:
    """The shapes (indices) of the tree that a camera of the model follows, or else of the first; and its root body."""
    followed = [model.cam_bodyid[one] for one in range(model.ncam) if follows(model, one)]
    root = model.body_rootid[followed[0] if followed else min(1, model.nbody - 1)]
    inside = model.body_rootid[model.geom_bodyid] == root
    seen = model.geom_rgba[:, 3] > 0
    solid = model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE
    return np.flatnonzero(inside & seen & solid & (model.geom_bodyid > 0)), int(root)


def follows(model: Any, camera: int) -> bool:
    return model.cam_mode[camera] in FOLLOWING and model.cam_bodyid[camera] > 0


def angles_of(model: Any) -> tuple[float, float]:
    """(azimuth, degrees looking down) of the model's own camera that follows the robot, if it has one; never steep."""
    for camera in range(model.ncam):
        if follows(model, camera):
            x, y, z = -model.cam_pos[camera]
            down = np.degrees(np.arctan2(-z, np.hypot(x, y)))
            return float(np.degrees(np.arctan2(y, x))), float(np.clip(down, LOWEST, HIGHEST))
    return SIDE


def axes(azimuth: float, elevation: float) -> tuple[Array, Array]:
    """(right, up) as MuJoCo's free camera sees it, unit vectors."""
    around, above = np.radians(azimuth), np.radians(elevation)
    forward = np.array([np.cos(above) * np.cos(around), np.cos(above) * np.sin(around), np.sin(above)])
    right = np.array([np.sin(around), -np.cos(around), 0.0])
    return right, np.cross(right, forward)


def between(model: Any, pose: Array, following: Array, part: float) -> Array:
    """The pose at `part` (0 to 1) of the way, along arcs where there are quaternions."""
    moved, velocity = pose.copy(), np.empty(model.nv)
    mujoco.mj_differentiatePos(model, velocity, 1.0, pose, following)
    mujoco.mj_integratePos(model, moved, velocity, part)
    return moved


def smooth(places: Array, reach: int) -> Array:
    """Every row's mean with its neighbours, `reach` on both sides and fewer at the ends, the same number on each."""
    last = len(places) - 1
    reaches = [min(reach, one, last - one) for one in range(len(places))]
    return np.array([places[one - near : one + near + 1].mean(axis=0) for one, near in enumerate(reaches)])


def dressed(model: Any, width: int, height: int) -> Any:
    """A copy of the model that looks calm: endless two-tone floor, plain sky, one soft light from above."""
    model = copy.copy(model)
    model.vis.global_.offwidth, model.vis.global_.offheight = width, height
    model.vis.global_.fovy = FOV
    model.vis.quality.shadowsize, model.vis.map.shadowclip = 1024, 2.0
    model.vis.headlight.active = True
    ambient, diffuse = (0.42, 0.35) if model.nlight else (0.85, 0.2)
    model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = ambient, diffuse
    model.vis.headlight.specular[:] = 0.1
    model.vis.rgba.haze[:] = (*np.array(SKY) / 255, 1)
    for texture in range(model.ntex):
        paint(model, texture)
    for light in range(model.nlight):
        model.light_active[light] = light == 0
        model.light_mode[light], model.light_bodyid[light] = mujoco.mjtCamLight.mjCAMLIGHT_FIXED, 0
        far_away(model, light)
        model.light_dir[light] = np.array(LIGHT) / np.linalg.norm(LIGHT)
        model.light_diffuse[light], model.light_specular[light], model.light_ambient[light] = 0.5, 0.15, 0.0
        model.light_castshadow[light] = True
    for geom in np.flatnonzero(np.isin(model.geom_type, GROUND)):
        material = model.geom_matid[geom]
        model.geom_rgba[geom, :3] = 1 if material >= 0 else np.array(FLOOR) / 255
        if material >= 0:
            model.mat_rgba[material] = (1, 1, 1, 1)
            model.mat_texuniform[material], model.mat_texrepeat[material] = True, (0.5, 0.5)
            model.mat_reflectance[material] = model.mat_specular[material] = 0
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_PLANE:
            model.geom_size[geom, :2] = 0  # without end: runs are longer than most floors
    return model


def far_away(model: Any, light: int) -> None:
    """Rays all of one direction; older versions of MuJoCo know no other kind than these and spots."""
    kinds = getattr(model, "light_type", None)
    if kinds is None:
        model.light_directional[light] = True
    else:
        kinds[light] = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL


def paint(model: Any, texture: int) -> None:
    """A flat texture becomes the floor's two tones, a sky the sky's one."""
    start = model.tex_adr[texture]
    rows, columns = int(model.tex_height[texture]), int(model.tex_width[texture])
    channels = int(model.tex_nchannel[texture])
    data = model.tex_data[start : start + rows * columns * channels].reshape(rows, columns, channels)
    kind = model.tex_type[texture]
    if kind == mujoco.mjtTexture.mjTEXTURE_SKYBOX:
        data[:, :, :3] = SKY
    elif kind == mujoco.mjtTexture.mjTEXTURE_2D:
        tile = (np.arange(rows)[:, None] * 2 // rows + np.arange(columns) * 2 // columns) % 2
        data[:, :, :3] = np.where(tile[:, :, None] == 1, TILE, FLOOR)
