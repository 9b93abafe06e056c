#!/usr/bin/env python3
"""The JSON that the program writes and reads is what profiles/schemas says: every document of the transcripts is
validated, and every device and cluster that is shipped.

Every command of the transcripts that asks for --json is run, and what each stepcast in it writes is collected. A document
names its schema ("stepcast.prediction/1", file stepcast.prediction-1.json); it has to validate, with no field that the
schema does not know, and every schema has to be seen. --update adds what is new to the schemas, in the types that were
seen and with the words of the result fields of the sources: review the difference, and write what is missing. What was
seen does not say what may be left out, nor what is null where it is not known: any field may be either but "schema".
"""
import argparse
import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile

import run

SCHEMAS = run.ROOT / "profiles" / "schemas"
# What the program reads as well: the folder of shipped ones, and a question that reads one. Here what may be left out is
# known: "required" is by hand, and nothing is null.
INPUTS = {"stepcast.device/1": ("devices", ["--workers", "2", "--per-node", "2", "--device"]),
          "stepcast.cluster/1": ("clusters", ["--cluster"])}
# Objects whose keys are data: plans, parts of clusters, levels, units. By schema and path.
MAPS = re.compile(r"/(inapplicable|unit_counts|units_of|options|changed_by|background)$")
WRAPPER = """#!/bin/bash
case " $* " in
  *" --json "*) "{program}" "$@" | tee "$(mktemp "$COLLECTED/XXXXXXXX")"; exit "${{PIPESTATUS[0]}}" ;;
  *) exec "{program}" "$@" ;;
esac
"""


def commands():
    for path in sorted(run.CASES.glob("*.txt")) + [run.ROOT / name for name in run.DOCUMENTS]:
        for line in path.read_text().splitlines():
            if line.startswith("$ ") and "--json" in line:
                yield line[2:]


def documents(program):
    """What the commands write, each with the command."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        wrapper = pathlib.Path(folder) / "bin" / "stepcast"
        wrapper.parent.mkdir()
        wrapper.write_text(WRAPPER.format(program=program))
        wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
        for number, command in enumerate(commands()):
            scratch, collected = pathlib.Path(folder) / f"{number}", pathlib.Path(folder) / f"{number}.out"
            scratch.mkdir(), collected.mkdir()
            os.environ["COLLECTED"] = str(collected)
            run.output_of(command, wrapper, str(scratch))
            for path in sorted(collected.iterdir()):
                text = path.read_text()
                try:
                    found.append((command, json.loads(text)))
                except json.JSONDecodeError:  # lines, or nothing where a question was refused
                    found += [(command, json.loads(line)) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]
    for folder, _ in INPUTS.values():
        for path in sorted((run.ROOT / "profiles" / folder).glob("*.json")):
            found.append((f"{folder}/{path.name}", json.loads(path.read_text())))
    return found


def path_of(name):
    return SCHEMAS / (name.replace("/", "-") + ".json")


def type_of(value):
    return {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number",
            type(None): "null"}[type(value)]


def widened(schema, value, path, words, nullable=True):
    """The schema with what it needs to hold the value; empty: nothing was seen yet, or only null."""
    kind = type_of(value)
    if kind == "null":
        return schema
    if path:
        schema["type"] = sorted({*schema.get("type", []), kind, *(["null"] if nullable else [])})
    if kind == "array":
        for item in value:
            schema["items"] = widened(schema.get("items", {}), item, path, words, nullable)
    if kind == "object":
        if MAPS.search(path):
            for item in value.values():
                schema["additionalProperties"] = widened(schema.get("additionalProperties", {}), item, path + "/*", words, nullable)
            return schema
        properties = schema.setdefault("properties", {})
        for key, item in value.items():
            if key not in properties and "additionalProperties" in schema:  # keys that are data, by hand
                schema["additionalProperties"] = widened(schema["additionalProperties"], item, f"{path}/*", words, nullable)
                continue
            if key not in properties and key in words:
                properties[key] = {"description": words[key]}
            properties[key] = widened(properties.get(key, {}), item, f"{path}/{key}", words, nullable)
    return schema


def words_of_fields():
    """What the sources say of the fields of results, where all that have a name say the same."""
    words = {}
    for source in sorted((run.ROOT / "model").rglob("*.hpp")) + sorted((run.ROOT / "profiles").rglob("*.hpp")):
        for name, said in re.findall(r'ResultField\{\s*"(\w+)",[^"]*?((?:"(?:[^"\\]|\\.)*"\s*)+)[,}]', source.read_text()):
            text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', said)).replace('\\"', '"')
            words.setdefault(name, set()).add(text)
    return {name: next(iter(texts)) for name, texts in words.items() if len(texts) == 1}


def strict(schema):
    """The same schema without room for fields that it does not name."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: ({name: strict(item) for name, item in value.items()} if key == "properties" else strict(value))
           for key, value in schema.items()}
    if "properties" in out:
        out.setdefault("additionalProperties", False)
    return out


def updated(found):
    words = words_of_fields()
    for command, document in found:
        path = path_of(document["schema"])
        schema = json.loads(path.read_text()) if path.exists() else {
            "$schema": "https://json-schema.org/draft/2020-12/schema", "title": document["schema"], "type": "object",
            "description": f"what '{' '.join(command.split()[:2])} --json' writes, or a file of profiles/"}
        schema = widened(schema, document, "", words, document["schema"] not in INPUTS)
        schema["properties"]["schema"] = {"const": document["schema"]}
        schema.setdefault("required", ["schema"])
        path.write_text(json.dumps(schema, indent=1, ensure_ascii=False) + "\n")


def flaws_of(found):
    import jsonschema
    flaws, seen = [], set()
    for command, document in found:
        name = document.get("schema", "")
        seen.add(name)
        if not path_of(name).exists():
            flaws.append(f"$ {command}\n  a document of schema '{name}', which is not in {SCHEMAS.name}/")
            continue
        checker = jsonschema.Draft202012Validator(strict(json.loads(path_of(name).read_text())))
        for error in list(checker.iter_errors(document))[:3]:
            flaws.append(f"$ {command}\n  {name} at /{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}")
    for path in sorted(SCHEMAS.glob("*.json")):
        schema = json.loads(path.read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        if schema["title"] not in seen:
            flaws.append(f"{path.name}: no transcript shows such a document")
    return flaws


def input_flaws(program):
    """What the schemas of inputs and the program disagree on, of shipped files without a required key or with a null."""
    import jsonschema
    flaws, tried = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "input.json"
        for name, (folder, question) in INPUTS.items():
            schema = jsonschema.Draft202012Validator(strict(json.loads(path_of(name).read_text())))
            whole = json.loads(min((run.ROOT / "profiles" / folder).glob("*.json")).read_text())
            required, properties = schema.schema["required"], set(schema.schema["properties"])

            def answer_to(document):
                path.write_text(json.dumps(document))
                return subprocess.run([program, "predict", "--model", "resnet50:", "--plan", "ddp", *question, path],
                                      capture_output=True, text=True)
            # The keys of the schema are those that are read: the message on another one lists them, cut off at a length.
            listed = answer_to({**whole, "no key": 1}).stderr.partition("known keys: ")[2].strip()
            known = {k for k in listed.split(", ") if not k.endswith("...")}
            tried += 1
            if not known or not known <= properties:
                flaws.append(f"{name}: the schema lacks {sorted(known - properties)} of {listed!r}")
            for k in properties:
                tried += 1
                if "expected a known key" in answer_to({**whole, k: None}).stderr:
                    flaws.append(f"{name}: the schema has '{k}', which stepcast does not read")
            for what, changed in [("as shipped", whole), *((f"without {k}", {i: v for i, v in whole.items() if i != k}) for k in required),
                                  *((f"{k} null", {**whole, k: None}) for k in whole)]:
                tried += 1
                answer = answer_to(changed)
                if schema.is_valid(changed) != (answer.returncode == 0):
                    flaws.append(f"{name} {what}: the schema {'takes' if answer.returncode else 'refuses'} it, stepcast "
                                 f"{'does not: ' + answer.stderr.strip()[:200] if answer.returncode else 'does not'}")
    return flaws, tried


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--program", type=pathlib.Path, required=True, help="the stepcast to test")
    arguments.add_argument("--update", action="store_true", help="add what is new to the schemas")
    options = arguments.parse_args()
    found = documents(options.program.resolve())
    if options.update:
        updated(found)
    try:
        flaws, inputs = flaws_of(found), input_flaws(options.program.resolve())
    except ImportError:
        print("skipped: python3-jsonschema is not installed")
        return 5
    flaws += inputs[0]
    print(*flaws, sep="\n")
    print(f"schemas: {len(found) + inputs[1] - len(flaws)} passed, {len(flaws)} failed")
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main())
