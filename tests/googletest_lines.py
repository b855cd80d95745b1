"""A plugin of pytest that prints cases as GoogleTest prints them, for scripts/count_tests.py: pytest -p googletest_lines
with this folder in PYTHONPATH."""

import pytest


class GoogleTestLines:
    def __init__(self, terminal):
        self.terminal = terminal

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("::", 1)[1].replace(" ", "").replace(",", ";")
        if report.when == "setup":
            self.terminal.write_line(f"\n[ RUN      ] {name}")
        if report.failed or report.skipped or report.when == "call":
            outcome = "  SKIPPED" if report.skipped else "  FAILED " if report.failed else "      OK"
            self.terminal.write_line(f"\n[{outcome} ] {name} ({round(report.duration * 1000)} ms)")


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.pluginmanager.register(GoogleTestLines(config.pluginmanager.get_plugin("terminalreporter")))
