"""A lineage as OpenLineage events: what each judgement read and found, and what each data set was made from."""

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

from dflash_guard.errors import JudgeError, UsageError
from dflash_guard.verdict.canonical import canonical_digest
from dflash_guard.verdict.lineage import Node
from dflash_guard.verdict.manifest import tool_version
from dflash_guard.verdict.record import Record

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

__all__ = ["events", "send"]

_NAMESPACE: Final = "dflash-guard"


def events(node: Node) -> "Iterator[RunEvent]":
    """START, then COMPLETE or FAIL, for every judgement of a lineage and every stage that wrote one of its data sets.

    Events of one lineage are the same whenever they are made: run ids come from the digests of verdicts and manifests.

    Args:
        node: The data set asked about; those behind it come first.

    Raises:
        UsageError: The OpenLineage client is not installed.
    """
    try:
        import openlineage.client.event_v2  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "--openlineage needs the OpenLineage client, which is not installed.",
            hint="install it: pip install 'dflash-guard[openlineage]'",
        ) from error
    told: set[str] = set()
    for each in reversed(list(node.walk())):
        if each.manifest is not None and each.manifest.digest not in told:
            told.add(each.manifest.digest)
            yield from _making(each)
        if each.record is not None and each.record.digest not in told:
            told.add(each.record.digest)
            yield from _judging(each, each.record)


def send(node: Node, target: str) -> int:
    """Send a lineage's events to a file or a receiver.

    Args:
        node: The data set asked about.
        target: A file that gets one event a line, or the URL of a receiver (`OPENLINEAGE_API_KEY` is its key).

    Returns:
        How many events were sent.

    Raises:
        JudgeError: They could not be sent.
        UsageError: The OpenLineage client is not installed.
    """
    made = list(events(node))
    from openlineage.client.serde import Serde

    if "://" not in target:
        text = "".join(Serde.to_json(event) + "\n" for event in made)
        try:
            Path(target).write_text(text, encoding="utf-8")
        except OSError as error:
            raise JudgeError(
                f"{target} can't be written: {error.strerror or error}.", hint="check the path given to --openlineage."
            ) from error
        return len(made)
    from openlineage.client.transport.http import HttpConfig, HttpTransport

    config: dict[str, Any] = {"url": target}
    if key := os.environ.get("OPENLINEAGE_API_KEY"):
        config["auth"] = {"type": "api_key", "apiKey": key}
    try:
        transport = HttpTransport(HttpConfig.from_dict(config))
        for event in made:
            transport.emit(event)
    except Exception as error:
        raise JudgeError(
            f"the events could not be sent to {target}: {type(error).__name__}.", hint="check the URL and the receiver."
        ) from error
    return len(made)


def _judging(node: Node, record: Record) -> "Iterator[RunEvent]":
    from openlineage.client.event_v2 import Run
    from openlineage.client.facet_v2 import error_message_run, processing_engine_run

    job = _job(f"check.{record.stage}")
    run = Run(
        str(_run_id(f"verdict {record.digest}")),
        {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version=record.tools.get("dflash-guard", "unknown"), name="dflash-guard", producer=_producer()
            )
        },
    )
    data = [_judged(node, record)]
    yield _event("START", _time(record.started), run, job, inputs=data)
    if record.result == "pass":
        yield _event("COMPLETE", _time(record.ended), run, job, inputs=data)
        return
    broken = ", ".join(each.rule for each in record.rules if each.failed)
    run = Run(
        run.runId,
        {
            **(run.facets or {}),
            "errorMessage": error_message_run.ErrorMessageRunFacet(
                message=f"the contract is violated: {broken}", programmingLanguage="Python", producer=_producer()
            ),
        },
    )
    yield _event("FAIL", _time(record.ended), run, job, inputs=data)


def _making(node: Node) -> "Iterator[RunEvent]":
    from openlineage.client.event_v2 import OutputDataset, Run
    from openlineage.client.facet_v2 import dataset_version_dataset, output_statistics_output_dataset

    manifest = node.manifest
    if manifest is None:
        return
    run, job = Run(str(_run_id(f"manifest {manifest.digest}"))), _job(f"{manifest.maker}.{manifest.stage}")
    version = _version([part.sha256 for part in manifest.shards])
    made = OutputDataset(
        "file",
        _name(node),
        facets={"version": dataset_version_dataset.DatasetVersionDatasetFacet(version, producer=_producer())},
        outputFacets={
            "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rowCount=sum(part.rows for part in manifest.shards),
                fileCount=len(manifest.shards),
                producer=_producer(),
            )
        },
    )
    sources = [_source(parent) for parent in node.parents]
    yield _event("START", manifest.created, run, job, inputs=sources)
    yield _event("COMPLETE", manifest.created, run, job, inputs=sources, outputs=[made])


def _event(kind: str, time: str, run: Any, job: Any, **data: Any) -> "RunEvent":
    from openlineage.client.event_v2 import RunEvent, RunState

    return RunEvent(eventType=RunState[kind], eventTime=time, run=run, job=job, producer=_producer(), **data)


def _source(node: Node) -> Any:
    from openlineage.client.event_v2 import InputDataset

    return _judged(node, node.record) if node.record is not None else InputDataset("file", _name(node))


def _judged(node: Node, record: Record) -> Any:
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import (
        data_quality_assertions_dataset,
        dataset_version_dataset,
        input_statistics_input_dataset,
        schema_dataset,
    )

    assertions = [
        data_quality_assertions_dataset.Assertion(
            assertion=each.rule, success=not each.failed, severity="error" if each.level == "error" else "warn"
        )
        for each in record.rules
        if each.skipped is None
    ]
    fields = [schema_dataset.SchemaDatasetFacetFields(name, kind) for name, kind in record.columns]
    return InputDataset(
        "file",
        _name(node),
        facets={
            "version": dataset_version_dataset.DatasetVersionDatasetFacet(
                _version([each.sha256 for each in record.shards]), producer=_producer()
            ),
            "schema": schema_dataset.SchemaDatasetFacet(fields=fields, producer=_producer()),
        },
        inputFacets={
            "dataQualityAssertions": data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
                assertions=assertions, producer=_producer()
            ),
            "inputStatistics": input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
                rowCount=record.counts.rows,
                size=sum(each.size for each in record.shards),
                fileCount=len(record.shards),
                producer=_producer(),
            ),
        },
    )


def _name(node: Node) -> str:
    return ",".join(str(Path(each).absolute()) for each in node.data)


def _job(name: str) -> Any:
    from openlineage.client.event_v2 import Job

    return Job(_NAMESPACE, name)


def _run_id(name: str) -> UUID:
    return uuid5(NAMESPACE_URL, f"urn:dflash-guard:{name}")


def _version(digests: list[str]) -> str:
    return canonical_digest({"shards": digests})


def _producer() -> str:
    return f"urn:dflash-guard:{tool_version('dflash-guard')}"


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
