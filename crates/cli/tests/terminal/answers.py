"""Runs a command at a terminal of its own and answers its questions.

    answers.py '[["text to wait for", "what is typed then", seconds before]…]' COMMAND…

Without seconds, the text is typed once the terminal does not show what is typed.
Standard input and standard error are the terminal, standard output is a pipe. Prints {"code", "stdout", "terminal"}.
In place of what is typed, {"touch": FILE} makes a file: the question is shown.
"""
import fcntl
import json
import os
import pty
import select
import subprocess
import sys
import termios
import time

MAX_SECONDS = 120
CTRL_C = "\x03"

answers = json.loads(sys.argv[1])
master, slave = pty.openpty()
child = subprocess.Popen(
    sys.argv[2:],
    stdin=slave,
    stdout=subprocess.PIPE,
    stderr=slave,
    start_new_session=True,
    # Ctrl-C reaches the processes of the terminal that controls them.
    preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
)
os.close(slave)
seen, at, deadline = "", 0, time.time() + MAX_SECONDS
while time.time() < deadline:
    ready, _, _ = select.select([master], [], [], 0.1)
    if ready:
        try:
            part = os.read(master, 65536)
        except OSError:
            break  # the last process has closed the terminal
        if not part:
            break
        seen += part.decode(errors="replace")
    elif child.poll() is not None:
        break
    if answers and answers[0][0] in seen[at:]:
        text, typed, seconds = answers.pop(0)
        at = seen.index(text, at) + len(text)
        if seconds is None:
            # What is typed before would be shown, and thrown away.
            while termios.tcgetattr(master)[3] & termios.ECHO and time.time() < deadline:
                time.sleep(0.01)
        else:
            time.sleep(seconds)
        if isinstance(typed, dict):
            open(typed["touch"], "w").close()
            continue
        os.write(master, (typed if typed == CTRL_C else typed + "\n").encode())
if child.poll() is None and time.time() >= deadline:
    child.kill()
stdout, _ = child.communicate()
print(json.dumps({"code": child.returncode, "stdout": stdout.decode(), "terminal": seen, "unanswered": answers}))
