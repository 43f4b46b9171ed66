"""The JSON Schemas that docs/schemas publishes; run as a module to write them anew."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from timeroof.core.report import MachineDocument, report_document_type

SCHEMAS: dict[str, object] = {
    "timeroof.report-2.json": report_document_type(),
    "timeroof.report-2.machine.json": MachineDocument,
}


def schema_text(kind: object) -> str:
    """The JSON Schema of a document, formatted."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **msgspec.json.schema(kind),
    }
    return (
        msgspec.json.format(msgspec.json.encode(schema, order="sorted"), indent=1).decode() + "\n"
    )


def write_schemas(folder: Path) -> None:
    """Write every published schema into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in SCHEMAS.items():
        (folder / name).write_text(schema_text(kind), encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
