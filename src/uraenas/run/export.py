"""What one run hands to another: a small copy of itself, its search, or its chains."""

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from uraenas.architectures import Searched
from uraenas.base.errors import UraenasError, unknown
from uraenas.base.whole_files import rename_for_good, unfinished, writing
from uraenas.data import DATASETS, OFFICIAL, LabelledImages
from uraenas.data.folder import read_again
from uraenas.data.pictures import CHANNELS
from uraenas.ensemble import Owner
from uraenas.run.config import Config, build, differences, in_words, override
from uraenas.run.directory import KEPT_FILES, REPORT, Run, link, search_taken_from
from uraenas.run.facts import DataFacts
from uraenas.run.recipes import taking_recipes
from uraenas.run.task import Task
from uraenas.spaces import Space

FILES = (".onnx", ".pt2", ".pt", ".zip", ".tar", ".gz")  # endings that no directory is meant to have
FEW_IMAGES = 10_000  # for training; with fewer a search finds no more than chance does


def export(
    run: Run, target: Path | str, methods: Sequence[str] = (), half: bool = True, report: bool = False
) -> Run:
    """Copy these methods' members, or all, and what is known of them.

    Checkpoints and predictions on shifted images stay behind, and so does the report unless it is asked for: it shows
    test images, which may not be for everybody. Weights are stored in half precision, normalisation
    statistics as they are. The copy appears whole or not at all.
    """
    config = run.config()
    for name in methods:
        if name not in run.trained:
            raise unknown("trained method", name, run.trained)
    in_order = [name for name in config.methods if name in run.trained]
    chosen = list(dict.fromkeys(methods or (*in_order, *run.trained)))
    if not chosen:
        raise UraenasError(f"{run.path} holds no trained method yet; run: uraenas train {run.quoted}")
    path = Path(target).absolute()
    _require_new(path, run)
    begun = unfinished(path)
    try:
        with writing(path):
            begun.mkdir(parents=True)
            _fill(Run(begun), run, override(config, {"methods": chosen}), half)
            run.hand_on([REPORT] if report else [], Run(begun))
            rename_for_good(begun, path)
    finally:
        shutil.rmtree(begun, ignore_errors=True)
    return Run(target)


def _require_new(path: Path, run: Run) -> None:
    if path.suffix.lower() in FILES:
        raise UraenasError(
            f"{path.name} would be a directory, since a copy of a run is one: choose a name without {path.suffix}; one "
            "file is written with --format onnx or torch"
        )
    if path.is_symlink() or path == Path.cwd() or (path.exists() and not path.is_dir()):
        raise UraenasError(f"{path} cannot become a run directory; choose another directory (--out)")
    if path.exists() and any(path.iterdir()):
        raise UraenasError(f"{path} exists and is not empty; choose another directory (--out)")
    if run.path.resolve() in path.resolve().parents:
        raise UraenasError(f"{path} lies in the run itself; choose another directory (--out)")


def _fill(copy: Run, run: Run, config: Config, half: bool) -> None:
    for name in config.methods:
        run.ensemble(name).save(copy.members_folder(name), half, Owner(run.identity, name))
    clean = run.metrics().rows[0].dataset if run.has("metrics.json") else ""  # the report is drawn from these
    run.hand_on((*KEPT_FILES, *(run.predictions_file(name, clean) for name in config.methods)), copy)
    copy.write_config(config, copy_of=run)


def usual_search(config: Config, task: Task) -> Run | None:
    """The search that comes with the package, for images too few to search on; None where it does not suit.

    These are own ones, or a few of a named dataset, but never those that the search has seen.
    """
    source, name = Run.pretrained("cifar10"), task.dataset.name
    whole = name in DATASETS and not (name in OFFICIAL and config.data.limit)
    seen = name == source.config().data.name
    if config.search is None or whole or seen or len(task.train) >= FEW_IMAGES:
        return None
    if taking_recipes(config):  # which it has none of
        return None
    if _searched(source).space.decisions != task.space.decisions:
        return None
    return None if any(seen_by(source, config, task)) else source


def with_search_of(source: Run, config: Config, given: Collection[str] = ()) -> Config:
    """The settings, with those that the source's search was made with; others that were `given` are refused."""
    if config.search is None:
        return config
    found = build({**_of_search(config.every, False), **_of_search(source.config().every)})
    found.others = _of_search(found.others, False)  # of another search that one of both might have made
    now, there = config.values, found.values
    if unlike := [key for key in given if key in _of_search(now) and there.get(key) != now[key]]:
        words = ", ".join(f"{key} = {now[key]} (there {there.get(key, 'no setting')})" for key in unlike)
        raise UraenasError(
            f"the search of {source.path} comes with its settings, and others are given: {words}; leave these out, or "
            f"{_without_it(config)}"
        )
    return found


def _without_it(config: Config) -> str:
    """What to do without another's search: a pupil is of its teacher's."""
    return "choose another teacher" if config.train.teacher else "search anew (--search-of none)"


def _of_search(values: Mapping[str, Any], which: bool = True) -> dict[str, Any]:
    """The settings of the search, or all others."""
    return {key: value for key, value in values.items() if key.startswith("search.") == which}


def check_search(source: Run, config: Config, task: Task) -> None:
    """Refuse a search of another space, and one that may have seen images which are held out now."""
    if _searched(source).space.decisions != task.space.decisions:
        raise UraenasError(f"the search of {source.path} is of another space than {task.space.name}")
    require_same_division(source, config, task, "search", _without_it(config))


def check_starts(config: Config, task: Task) -> None:
    """Refuse to start chains from networks that may have been trained on images which are held out now."""
    for start in {config.method(name).source.start for name in config.methods} - {""}:
        what, instead = "training (train.sampled.start)", "start from another run's networks, or from none"
        for source in _line_of(start):
            require_same_division(source, config, task, what, instead)
            if config.train.folds and _same_images(source, config, task):
                raise UraenasError(
                    f"the {what} of {source.path} does not fit: with train.folds its networks have learned from what "
                    f"chains leave out now; {instead}"
                )


def _line_of(start: str) -> Iterator[Run]:
    """The run whose networks chains start from, the one whose networks those started from, and so on."""
    seen = set()
    while start and start not in seen:
        seen.add(start)
        yield (source := Run.find(start))
        start = source.config().values.get("train.sampled.start", "") if source.exists else ""


def require_same_division(source: Run, config: Config, task: Task, what: str, instead: str) -> None:
    """Refuse another run's work that may have seen images which are held out now, and say what to do instead.

    Work on other images is welcome, if none of them is held out or tested on now. On the same images the seed and the
    data's settings say which are held out; with folds none is from all, and rows of a table may be apart.
    """
    if _same_images(source, config, task):
        why = f", so it may have seen what is held out now; set this as it was there, or {instead}"
        folds = () if config.train.folds and not _other_rows_apart(source, task) else ("train.folds",)
        _require_alike(source, config, ("seed", "data.", *folds), what, why)
    for name, part, count in seen_by(source, config, task):
        raise UraenasError(
            f"the {what} of {source.path} has seen {count:,} of the {len(part):,} {name} images; keep held-out "
            f"and test images apart from run to run, in val/ and test/ of a folder, or {instead}"
        )


def seen_by(source: Run, config: Config, task: Task) -> Iterator[tuple[str, LabelledImages, int]]:
    """Held-out or test images of which a run on other images has learned so many, as far as it has marks of them."""
    images, own = source.data(), task.dataset
    if images is None or not images.learned or _same_images(source, config, task):
        return
    for name, part in (("held-out", task.held_out), ("test", own.test)):
        if part is not own.train and (count := images.has_learned(_as_read_there(part, source, config))):
            yield name, part, count


def _as_read_there(part: LabelledImages, source: Run, config: Config) -> LabelledImages:
    """Images as the other run would have read their files, if it reads files: of another size or in other colours."""
    folder, images = Path(config.data.name).expanduser(), source.data()
    if images is None or part.images.shape[1:] == images.image or images.image[2] not in CHANNELS:
        return part
    if part.names is None or not folder.is_dir() or source.config().data.name in DATASETS:
        return part
    return LabelledImages(read_again(folder, part.names, images.image), part.labels)


def _same_images(source: Run, config: Config, task: Task) -> bool:
    """Whether a run has these images. Where others of its rows are apart, checksums differ, and a name has to tell."""
    theirs, ours = source.data(), task.facts
    if theirs is None or theirs.blake2b == ours.blake2b:
        return theirs is not None
    names = {Path(one.data.name).name for one in (source.config(), config)}
    alike = len(names) == 1 and (theirs.image, theirs.test_images) == (ours.image, ours.test_images)
    return alike and _other_rows_apart(source, task)


def _other_rows_apart(source: Run, task: Task) -> bool:
    images = source.data()
    return images is not None and images.apart_images != task.facts.apart_images


def _searched(source: Run) -> Searched:
    found = source.searched()
    if found is None:
        raise UraenasError(f"{source.path} holds no finished search; run: uraenas search {source.quoted}")
    return found


def check_chains(run: Run, source: Run, config: Config, data: DataFacts) -> None:
    """Refuse a run whose chains are not those that these settings and images ask for."""
    kinds = {config.method(name).weights for name in config.methods}
    free = {f"train.{kind.section}.{name}" for kind in kinds for name in kind.of_members}
    if run.exists and run.chains_identity != source.chains_identity:
        raise UraenasError(
            f"{run.path} has other chains than {source.path}; choose another directory (--out)"
        )
    changed = differences(source.config(), config)
    deciding = tuple(key for key in changed if not key.startswith("ensemble.") and key not in free)
    if deciding:
        _require_alike(source, config, deciding, "chains")
    known = source.data()
    if known is None or not known.fits(data):
        raise UraenasError(f"the chains of {source.path} were trained on other data than {config.data.name}")


def _require_alike(source: Run, config: Config, deciding: tuple[str, ...], what: str, why: str = "") -> None:
    changed = {k: v for k, v in differences(source.config(), config).items() if k.startswith(deciding)}
    if changed:
        raise UraenasError(f"the {what} of {source.path} does not fit: {in_words(changed)}{why}")


def take_search(run: Run, source: Run, space: Space) -> None:
    """Give a run that has no search yet another's, with what it cost."""
    if run.has_search:
        return
    costs, theirs = source.costs.read(), source.config()
    if "search" not in run.costs.read() and "search" in costs:
        run.costs.add({"search": costs["search"]})
    found, name = _searched(source), search_taken_from(source) or source.path.resolve().name
    kind = theirs.every["search.distribution"]  # methods that need a search may have gone since
    epochs = theirs.values.get("search.epochs", len(found.history))
    run.write_searched(replace(found, space=space), kind, epochs=epochs, seed=theirs.seed, of=name)
    run.log("search taken over", run=name)


def take_chains(run: Run, source: Run, space: Space) -> None:
    """Give a run search and chains of another, with what they cost; files are shared where the disk allows it.

    What the run has of them already, since this was done before or cut off, stays as it is.
    """
    if source.has_search:
        take_search(run, source, space)
    for file in sorted((source.path / "chains").rglob("*.safetensors")):
        if not run.has(name := str(file.relative_to(source.path))):
            link(file, run.path / name)
    spent: Mapping[str, Mapping[str, float]] = source.costs.read()
    unbooked = [item for item in spent if item.startswith("chains/") and item not in run.costs.read()]
    run.costs.add({item: spent[item] for item in unbooked})
    run.log("chains taken over", run=source.path.resolve().name)
