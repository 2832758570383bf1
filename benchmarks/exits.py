"""Early exit on SST-2: accuracy and time by patience, from text, one at a time and in batches.

    python -m benchmarks.exits --run run --data SST-2 --output exits
    python -m benchmarks.exits --run run --data SST-2 --output exits --config deep.json --steps 3000

Fine-tunes a pre-trained run with `early_exit` for each seed. Prints Markdown: for each batch size and
patience the accuracy, the number of layers, and the speed compared with all layers, as medians of the seeds
with their range. One process measures all layers and all patiences, one after the other. `--config` is a
deeper network whose shared layers begin with the run's weights. The folder holds the runs; started again, the
program continues where it stopped.
"""

from __future__ import annotations

from pathlib import Path

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.reports import exit_report
from albert_tf.runs.build_model import build_model
from albert_tf.runs.load_save import save
from albert_tf.runs.run_directory import RunDirectory, best_run
from albert_tf.runs.warm_start import warm_start_from
from benchmarks import smoke
from benchmarks.markdown_tables import format_range, print_header, print_row

BATCHES = (1, 32)


def main() -> None:
    """Prints the table."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--run", required=True, help="pre-trained run directory")
    parser.add_argument("--data", type=Path, required=True, help="GLUE's folder of SST-2")
    parser.add_argument("--output", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--config", help="JSON file of a deeper network")
    parser.add_argument("--seeds", type=int, default=3, help="runs (3)")
    parser.add_argument("--steps", type=int, default=2000, help="updates of each (2000)")
    parser.add_argument("--seq_length", type=int, default=64, help="tokens of a text (64)")
    parser.add_argument("--learning_rate", type=float, default=3e-5, help="peak learning rate (3e-5)")
    flags = smoke.read_flags(
        parser, run=smoke.pretrained_run, data=smoke.sst2, output=smoke.output_folder, seeds=1, steps=2,
        seq_length=16,
    )  # fmt: skip
    run = Path(flags.run)
    if flags.config is not None:
        run = deepen_run(flags.run, flags.config, flags.output / "deeper")
    names = ("steps", "seq_length", "learning_rate")
    recipe = {"early_exit": True, **{name: getattr(flags, name) for name in names}}
    for seed in range(flags.seeds):
        output = flags.output / f"seed-{seed}"
        settings = {"output": output, "init_from": run, "data": flags.data, "recipe": recipe, "seed": seed}
        finetune(Finetuning(task="sst-2", **settings))
    print_header("batch", "patience", "accuracy", "layers", "ms a text", "times as fast")
    for batch_size in BATCHES:
        results: dict[int, list[tuple[float, ...]]] = {}
        for seed in range(flags.seeds):
            report = exit_report(flags.output / f"seed-{seed}", flags.data, batch_size=batch_size)
            for patience, *metrics in report.tables[0].rows:
                results.setdefault(patience, []).append(tuple(metrics))
        for patience, seeds in results.items():
            print_row(f"{batch_size}", f"{patience}", *map(format_seeds, zip(*seeds, strict=True)))


def deepen_run(run: str, config: str, output: Path) -> Path:
    """Writes a run of a deeper network with the weights of another run."""
    if not output.exists():
        origin, task = best_run(run), {"model": "encoder"}
        network = AlbertConfig.from_json_file(config).replace(vocab_size=origin.config.vocab_size)
        model = build_model(network, task, warm_start_from(origin, network, task).read)
        save(model, output, origin.vocabulary, tokenizer=RunDirectory(run).tokenizer)
    return output


def format_seeds(values: tuple[float, ...]) -> str:
    """The median of the seeds, with their range if there are several."""
    return format_range(values) if len(values) > 1 else f"{values[0]:.3f}"


if __name__ == "__main__":
    main()
