"""Members and the ensembles they form: predict, split uncertainty, save, load, select."""

from uraenas.ensemble.description import Owner
from uraenas.ensemble.ensemble import SHARE, Ensemble
from uraenas.ensemble.known import Known
from uraenas.ensemble.member import Kind, Member, MemberFacts, Origin, member_files
from uraenas.ensemble.predictor import MembersPredictor
from uraenas.ensemble.selection import EnsembleSettings
from uraenas.ensemble.shared import SharedPredictor

__all__ = [
    "SHARE",
    "Ensemble",
    "EnsembleSettings",
    "Kind",
    "Known",
    "Member",
    "MemberFacts",
    "MembersPredictor",
    "Origin",
    "Owner",
    "SharedPredictor",
    "member_files",
]
