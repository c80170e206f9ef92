"""The settings of an ablation: what `gentus index` decides by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gentus.settings import SCRATCH, BuildSettings, Preset, Softmax, Variant, preset_settings

MINILM = "minilm"


@dataclass(frozen=True, slots=True)
class Ablation:
    """What differs from a preset; None: as in the preset."""

    identifiers: Variant = "semantic"
    softmax: Softmax | None = None
    ship_generator: bool = False  # even if the prior is better
    names: bool = True
    codes: int | None = None  # codewords per level
    levels: int | None = None  # codes per identifier

    def settings(self, preset: Preset, seed: int = 0) -> BuildSettings:
        """The settings of a build."""
        usual = preset_settings(preset, seed)
        generation = usual.generation
        if generation is not None:
            softmax = self.softmax or generation.softmax
            generation = replace(generation, softmax=softmax, always=self.ship_generator)
        elif self.softmax is not None or self.ship_generator:
            raise ValueError("--softmax and --ship-generator are for a generator: give --labels")
        quantizer = replace(
            usual.quantizer,
            codes=self.codes or usual.quantizer.codes,
            levels=self.levels or usual.quantizer.levels,
        )
        return replace(
            usual,
            identifiers=self.identifiers,
            names=self.names,
            generation=generation,
            quantizer=quantizer,
        )


def small_paper(seed: int = 0) -> BuildSettings:
    """The preset `paper` at a size for a CPU: MiniLM for BERT, a small T5 from scratch, no column names.

    As `gentus index --preset paper --bert minilm --t5 scratch --no-names`.
    """
    return replace(preset_settings("paper", seed, SCRATCH), bert=MINILM, names=False)
