"""No drafts: the control."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workers.decoding.tree import DraftTree
from workers.drafters import Drafter, DraftRequest, TargetInfo, reject_unknown


class NoDrafts(Drafter):
    def draft(self, request: DraftRequest) -> DraftTree:
        return DraftTree.empty(len(request.state))


def build(options: dict[str, Any], artifacts: Mapping[str, Path], target_info: TargetInfo) -> NoDrafts:
    reject_unknown("none", options, ())
    return NoDrafts()
