"""What holds for every test."""

from __future__ import annotations

import signal

for number, default in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    # Whoever runs the tests in the background may have them ignored, which processes inherit.
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, default)
