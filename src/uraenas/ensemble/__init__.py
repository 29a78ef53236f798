"""Members and the ensembles they form: predict, split uncertainty, save, load, select."""

from uraenas.ensemble.ensemble import Ensemble, Owner
from uraenas.ensemble.member import Kind, Member, MemberFacts, Origin, member_files
from uraenas.ensemble.predictor import MembersPredictor
from uraenas.ensemble.selection import EnsembleSettings
from uraenas.ensemble.shared import SharedPredictor

__all__ = [
    "Ensemble",
    "EnsembleSettings",
    "Kind",
    "Member",
    "MemberFacts",
    "MembersPredictor",
    "Origin",
    "Owner",
    "SharedPredictor",
    "member_files",
]
