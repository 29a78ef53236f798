"""Recipes that chains take from the search: whether it has any, and whether they mean there what they mean here."""

from uraenas.base.errors import UraenasError
from uraenas.run.config import Config


def taking_recipes(config: Config) -> list[str]:
    """The methods whose recipes are the search's."""
    return [name for name in config.methods if config.method(name).recipes.from_search]


def check_recipes(config: Config) -> None:
    """Refuse a method that takes its recipes from a search which asks for none."""
    for name in taking_recipes(config):
        if config.search is None or "recipes" not in config.search.distribution.kept:
            kind = config.values.get("search.distribution", "none")
            raise UraenasError(
                f"{name} takes its recipes from the search, and {kind} has none; use search.distribution=agebo"
            )


def recipe_notes(config: Config) -> list[str]:
    """A recipe is made of factors: it means the same where what they multiply is the same."""
    values, notes = config.values, []
    for name in taking_recipes(config):
        assert config.search is not None
        kinds = config.search.weights.section, config.method(name).weights.section
        pairs = [tuple(f"{kind}.step_size" for kind in kinds), ("prior_deviation",) * 2, ("batch",) * 2]
        unlike = [
            f"search.{there} = {values[f'search.{there}']} and train.{here} = {values[f'train.{here}']}"
            for there, here in pairs
            if (there, values[f"search.{there}"]) != (here, values[f"train.{here}"])
        ]
        if unlike:
            words = f"{name} trains by recipes that the search found with other settings"
            notes.append(f"{words}: {', '.join(unlike)}; they fit best where these are alike")
    return notes
