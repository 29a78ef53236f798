"""The run directory, its settings, and the stages on it.

- Settings: `presets.py`; `schema.py`, which there are; `config.py`, a run's; `parsing.py`; `explained.py`.
- Files: `directory/`, whose `Run` is the entry; `checkpoints.py`, what a run goes on from; `facts.py`, data.json;
  `cost.py`, cost.json; `progress.py`, progress.json; `location.py`, where runs lie; `hub.py` and `fetching.py`, runs
  on the Hugging Face hub.
- Stages: `pipeline.py`; `task.py`, the data; `advice.py`, what to know before; `work.py`, what stages share;
  `searching.py`, `training.py`, `members.py` and `evaluation.py`, one each; `recipes.py`, whether a search's recipes
  suit chains; `places/`, who computes.
- From another run: `export.py`, copies, searches and chains; `starts.py`, trained networks; `teaching.py`, labels.
- Time: `rates.py`, measured; `forecast.py`, of a run; `budget.py`, one that is over in time; `choice.py`, its settings;
  `fine_tuning.py`, one way to.
- Looking: `show.py`, without PyTorch; `watching.py`, at what is learned so far; `pairing.py`, at two runs;
  `tensorboard.py`.
"""
