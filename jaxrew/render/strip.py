"""Pictures with a strip of rewards below: one small line plot for each source of reward, up to the moment shown."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrew.render.playback import Series

WIDTH = 384
"""Least width of a frame, in pixels."""
MARGIN, LINE, ROW = 10, 18, 50
LABELS, BOUNDS = 116, 46
"""Widths of the columns left and right of the plots."""
INK, GREY, RULE, PAPER = (30, 30, 30), (120, 120, 120), (215, 215, 215), (255, 255, 255)
COLOURS = ((31, 119, 180), (214, 39, 40), (44, 160, 44), (148, 103, 189), (255, 127, 14), (140, 86, 75))


class Moment(NamedTuple):
    """A frame in its episode: `steps` of them done, of `length`, the first being step `start` of the playback."""

    start: int
    length: int
    steps: int


class Strip:
    """Draws frames `[H, W, 3]` with their strip.

    Args:
      series: `[T]` each; all episodes share one scale.
      image_size: height and width of the frames.
      lines: most lines of text between the frame and the plots.
    """

    def __init__(self, series: Sequence[Series], image_size: tuple[int, int], lines: int):
        self.series = series
        self.image_size = image_size
        self.width = max(image_size[1], WIDTH)
        self._rows = image_size[0] + MARGIN // 2 + lines * LINE + MARGIN // 2
        self.height = self._rows + ROW * len(series) + MARGIN // 2
        self._bounds = [_bounds(part.values) for part in series]
        self._text, self._small = _font(12), _font(10)

    def frame(self, image: np.ndarray, moment: Moment, lines: Sequence[str]) -> Any:
        """A Pillow image: the frame, lines of text, and the plots of this episode so far."""
        from PIL import Image, ImageDraw

        canvas = Image.new("RGB", (self.width, self.height), PAPER)
        canvas.paste(Image.fromarray(image), ((self.width - image.shape[1]) // 2, 0))
        draw = ImageDraw.Draw(canvas)
        for row, line in enumerate(lines):
            y = self.image_size[0] + MARGIN // 2 + row * LINE
            draw.text(
                (MARGIN, y), _cut(line, self._text, self.width - 2 * MARGIN), INK if row == 0 else GREY, self._text
            )
        for row in range(len(self.series)):
            self._plot(draw, row, moment)
        return canvas

    def _plot(self, draw: Any, row: int, moment: Moment) -> None:
        part, (low, high), colour = self.series[row], self._bounds[row], COLOURS[row % len(COLOURS)]
        top = self._rows + row * ROW
        left, right, bottom = MARGIN + LABELS, self.width - MARGIN - BOUNDS, top + ROW - 16
        values = np.nan_to_num(part.values[moment.start : moment.start + moment.steps])
        # Each step is as wide as any other, so that a single payment is a column and not a slope.
        x = left + (right - left) * np.arange(len(values) + 1).repeat(2)[1:-1] / moment.length
        y = (bottom - (bottom - top) * (values - low) / (high - low)).repeat(2)
        zero = bottom + (bottom - top) * low / (high - low)

        draw.text((MARGIN, top - 2), _cut(part.label, self._text, LABELS - MARGIN), colour, self._text)
        now = f"{_number(values[-1])}  Σ {_number(values.sum())}" if len(values) else part.note
        draw.text(
            (MARGIN, top + 14), _cut(now, self._small, LABELS - MARGIN), INK if len(values) else GREY, self._small
        )
        draw.text((right + 6, top - 6), _number(high, 2), GREY, self._small)
        draw.text((right + 6, bottom - 7), _number(low, 2), GREY, self._small)
        draw.line([(left, zero), (right, zero)], RULE)
        draw.line([(left, top), (left, bottom)], RULE)
        if len(values):
            draw.line(list(zip(x.tolist(), y.tolist(), strict=True)), colour, width=2)
            draw.ellipse([x[-1] - 3, y[-1] - 3, x[-1] + 3, y[-1] + 3], fill=colour)


def write_gif(path: Path, draw: Any, num_frames: int, durations: Sequence[int], progress: Any) -> None:
    """Writes frames `draw(0) .. draw(num_frames - 1)`, Pillow images, with one palette of at most 256 colours.

    Args:
      path: where.
      draw: from an index to an RGB image; called again for some of them, to choose the palette.
      num_frames: how many.
      durations: of each frame in ms.
      progress: wraps the indices while they are drawn.
    """
    from PIL import Image

    palette = _palette([np.asarray(draw(i)) for i in np.unique(np.linspace(0, num_frames - 1, 16).astype(int))])
    frames = (draw(i).quantize(palette=palette, dither=Image.Dither.NONE) for i in progress(range(num_frames)))
    next(frames).save(path, save_all=True, append_images=frames, duration=list(durations), loop=0, optimize=False)


def _palette(frames: Sequence[np.ndarray]) -> Any:
    """An image with the 256 most frequent colours, or a compromise where these cover less than most of the frames.

    Of colours that differ by less than 4 in each channel only the most frequent counts: what is saved serves rare ones.
    """
    from PIL import Image

    pixels = np.concatenate(frames)
    codes, counts = np.unique(pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32), return_counts=True)
    order = np.argsort(-counts)
    _, first, group = np.unique(codes[order] & 0xFCFCFC, return_index=True, return_inverse=True)
    covered = np.bincount(group, counts[order])
    largest = np.argsort(-covered)[:256]
    if covered[largest].sum() < 0.95 * counts.sum():
        return Image.fromarray(pixels).quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    palette = Image.new("P", (1, 1))
    palette.putpalette(
        np.stack([codes[order[first[largest]]] >> shift & 255 for shift in (16, 8, 0)], axis=1)
        .astype(np.uint8)
        .tobytes()
    )
    return palette


def _bounds(values: np.ndarray) -> tuple[float, float]:
    """The range of a plot, zero included."""
    values = np.nan_to_num(values)
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    return (low, high) if high > low else (0.0, 1.0)


def _number(value: float, digits: int = 3) -> str:
    return f"{value:,.0f}" if 100 <= abs(value) < 1e6 else f"{value:.{digits}g}"


def _font(size: int) -> Any:
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size)


def _cut(text: str, font: Any, width: int) -> str:
    """`text`, shortened so that it fits."""
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(f"{text}…") > width:
        text = text[:-1]
    return f"{text}…"
