"""What libstepcast.so shows: the functions of the C interface, as listed in exports.txt, and of C++ what the public
headers declare; nothing of the libraries under it, and no template of the standard library.

  exports.py PREFIX            compares
  exports.py PREFIX --update   writes the list of C functions anew

A name that leaves the list breaks programs that are already built; a name that comes must be meant.
"""
import pathlib
import re
import subprocess
import sys

LIST = pathlib.Path(__file__).resolve().parent / "exports.txt"
FOREIGN = re.compile(r"nlohmann|simdjson|Eigen|google|protobuf|boost|sqlite|isal|__gnu_cxx")
DESCRIBES = re.compile(r"^(typeinfo name|typeinfo|vtable) for ")


def shown(library, demangled):
    command = ["nm", "-D", "--defined-only", *(["-C"] if demangled else []), str(library)]
    lines = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()
    return [line.split(maxsplit=2)[2] for line in lines]


def scope_of(name):
    """The parts of a demangled name: "stepcast::Model::on(stepcast::Cluster) const" gives stepcast, Model, on."""
    name = DESCRIBES.sub("", name)
    head = re.split(r"[(<\[]", name, maxsplit=1)[0]
    return [part.lstrip("~") for part in head.split("::")]


def flaw_of(name, words):
    scope = scope_of(name)
    if FOREIGN.search(name):
        return "names a library under it"
    if scope[0] != "stepcast" or len(scope) < 2:
        return "is outside the namespace"
    unknown = [part for part in scope[1:] if part not in words and not part.startswith("operator")]
    return f"is in no public header: {', '.join(unknown)}" if unknown else ""


def main():
    prefix = pathlib.Path(sys.argv[1])
    library = prefix / "lib/libstepcast.so"
    c_names = sorted(name for name in shown(library, False) if not name.startswith("_Z"))
    if "--update" in sys.argv:
        LIST.write_text("".join(name + "\n" for name in c_names))
    listed = LIST.read_text().split()
    for name in sorted(set(listed) - set(c_names)):
        print(f"gone from the C interface: {name}")
    for name in sorted(set(c_names) - set(listed)):
        print(f"new in the C interface (--update, if it is meant): {name}")
    header = (prefix / "include/stepcast/stepcast.h").read_text()
    declared = set(re.findall(r"\b(stepcast_\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.S)))
    for name in sorted(declared ^ set(c_names)):
        print(f"declared, or shown, but not both: {name}")

    words = set()
    for path in (prefix / "include/stepcast").rglob("*.hpp"):
        words.update(re.findall(r"\w+", re.sub(r"//.*", "", path.read_text())))
    cpp_names = [name for name in shown(library, True) if not name.startswith("stepcast_")]
    flaws = [(name, flaw) for name in cpp_names if (flaw := flaw_of(name, words))]
    for name, flaw in flaws:
        print(f"{name} {flaw}")
    print(f"{len(c_names)} C functions, {len(cpp_names)} C++ names")
    return 1 if flaws or c_names != listed or declared != set(c_names) or not cpp_names else 0


if __name__ == "__main__":
    sys.exit(main())
