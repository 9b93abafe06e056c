"""The laboratory's own Python: today's PyTorch in a virtual environment under build/, fetched once."""
import hashlib
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "build" / "lab-python"
DISK = "6 GB"


def interpreter():
    return FOLDER / "bin" / "python"


def ready(stamp, wanted):
    return interpreter().exists() and stamp.exists() and stamp.read_text() == wanted


def made():
    """The interpreter's path; an OSError says what is missing."""
    requirements = HERE / "requirements.txt"
    wanted, stamp = hashlib.sha256(requirements.read_bytes()).hexdigest(), FOLDER / "requirements.sha256"
    if not ready(stamp, wanted):
        print(f"lab: fetching PyTorch into {FOLDER}: once, some minutes, {DISK} of disk", file=sys.stderr, flush=True)
        base = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
        for command in ([base, "-m", "venv", str(FOLDER)],
                        [str(interpreter()), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r",
                         str(requirements)]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                lines = (done.stderr or done.stdout).strip().splitlines()
                raise OSError(f"{' '.join(command[:4])} ...: {lines[-1] if lines else 'failed'} "
                              "(apt-get install python3-venv; pip needs a way to PyPI)")
        stamp.write_text(wanted)
    return str(interpreter())
