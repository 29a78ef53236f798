"""Runs on the hub, by its own client library, which talks to a stand-in for the service."""

import json
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from hub_stand_in import TOKEN, Hub

from uraenas import Run, UraenasError
from uraenas.data import digits
from uraenas.ensemble import Owner
from uraenas.run.hub import _size, card, push

hub_client = pytest.importorskip("huggingface_hub")

# The client library's, of its own HTTP client.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=")
REPO = "someone/digits-ensemble"
TEST = digits().test.images[:20]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """What HF_ENDPOINT, HF_HUB_CACHE and HF_TOKEN would say; they are read when the library is imported."""
    with pytest.MonkeyPatch.context() as patch, Hub() as served:
        constants = "huggingface_hub.constants"
        of_files = served.url + "/{repo_id}/resolve/{revision}/{filename}"
        patch.setattr(f"{constants}.ENDPOINT", served.url)
        patch.setattr(f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", of_files)
        patch.setattr(f"{constants}.HF_HUB_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(f"{constants}.HF_HUB_DISABLE_XET", True)  # large files by the older way, LFS
        patch.setenv("HF_TOKEN", TOKEN)
        yield served
        served.shutdown()


@pytest.fixture(scope="module")
def pushed(hub: Hub, finished_run: Path, uraenas) -> Hub:
    done = uraenas("push", finished_run, REPO, "--license", "mit", "--methods", "uraenas", "--private")
    assert done.returncode == 0, done.stderr
    assert f"{hub.url}/{REPO}" in done.stdout
    return hub


def test_what_is_pushed_is_the_small_copy_and_a_card(pushed: Hub, finished_run: Path) -> None:
    files = pushed.repos[REPO]
    assert pushed.private[REPO]
    assert {"config.json", "metrics.json", "README.md", "methods/uraenas/members/ensemble.json"} <= set(files)
    assert not any(name.startswith(("chains/", "lock", "log")) for name in files)
    assert any(name.endswith(".safetensors") for name in pushed.large_files)
    _, head, body = files["README.md"].decode().split("---\n", 2)
    facts = json.loads(head)
    assert (facts["library_name"], facts["license"]) == ("uraenas", "mit")
    card = hub_client.ModelCard(files["README.md"].decode())  # as the hub reads it
    (result, *_) = card.data.eval_results
    rows = Run(finished_run).metrics().rows
    whole = ("uraenas", "none", "temperature", "accuracy", 2)
    facts_of = attrgetter("method", "shift", "calibration", "metric", "members")
    (accuracy,) = {row.value for row in rows if facts_of(row) == whole}
    assert (result.metric_type, result.metric_value) == ("accuracy", round(accuracy, 5))
    assert f"{accuracy:.4f}" in body
    assert Run(finished_run).identity in body
    assert "For comparison, and not part of this model: drnas, deep-ensemble." in body
    assert "An ensemble of 2 members, of 2 architectures (uraenas)" in body
    assert "weights in half precision; figures and promises are those of full precision" in body


def test_nothing_of_an_earlier_push_stays_but_what_is_no_part_of_a_run(hub: Hub, finished_run: Path) -> None:
    repo, run = "someone/twice", Run(finished_run)
    push(run, repo)
    hub.repos[repo] |= {"notes.md": b"own", "teacher.json": b"{}"}
    push(run, repo, ("drnas",), half=False)
    files = hub.repos[repo]
    assert {name.split("/")[1] for name in files if name.startswith("methods/")} == {"drnas"}
    assert ("notes.md" in files, "teacher.json" in files) == (True, False)
    fetched = Run.from_hub(repo)
    assert fetched.trained == ["drnas"]
    np.testing.assert_array_equal(
        fetched.ensemble().predict_proba(TEST), run.ensemble("drnas").predict_proba(TEST)
    )
    body = files["README.md"].decode()
    assert "One network (drnas)" in body
    assert "half precision" not in body


def test_a_card_says_what_members_share_and_where_the_search_is_from(own_run: Path) -> None:
    run = Run(own_run)
    ensemble = run.ensemble("uraenas")
    (first, second) = ensemble.members
    thrice = replace(ensemble, members=(first, first, second), known=None, classes=("a, b", *"123456789"))
    assert _size(thrice) == "An ensemble of 3 members that share 2 networks, of 2 architectures"
    thrice.save(run.members_folder("uraenas"), owner=Owner(run.identity, "uraenas"))
    run.write_searched(run.searched(), "dirichlet", of="elsewhere")
    text = card(run, "someone/thrice", "", half=False)
    assert 'Classes: "a, b", 1, 2' in text
    assert "- architectures from the search of elsewhere" in text


def test_it_is_opened_from_the_hub_and_predicts(
    pushed: Hub, finished_run: Path, uraenas, tmp_path: Path
) -> None:
    run = Run.from_hub(REPO)
    ensemble = run.ensemble()
    expected = Run(finished_run).ensemble("uraenas").predict_proba(TEST)
    np.testing.assert_allclose(ensemble.predict_proba(TEST), expected, atol=0.02)  # half precision
    assert run.identity == Run(finished_run).identity
    assert not (run.path / "report.html").exists()
    done = uraenas("show", f"hf://{REPO}", "--json")
    assert done.returncode == 0, done.stderr
    before = len(pushed.requests)
    again = Run.from_hub(REPO)
    fetched = [one for one in pushed.requests[before:] if "/resolve/" in one]
    assert again.ensemble().identity == ensemble.identity
    assert not fetched  # from the cache


def test_what_goes_wrong_is_one_line(pushed: Hub, finished_run: Path, uraenas, monkeypatch) -> None:
    for arguments, why in (
        (("show", "hf://someone/nothing"), "someone/nothing could not be fetched"),
        (("push", finished_run, "not/a/name"), "not/a/name could not be pushed"),
    ):
        done = uraenas(*arguments)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert why in done.stderr
    pushed.repos["someone/else"] = {"README.md": b"no run"}
    with pytest.raises(UraenasError, match="holds no run"):
        Run.from_hub("someone/else")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    done = uraenas("push", finished_run, "someone/more")
    assert done.returncode == 2
    assert "401" in done.stderr
