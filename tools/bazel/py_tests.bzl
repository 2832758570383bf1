"""py_tests for pytest: a file of tests does nothing when Python runs it, so pytest is the main program."""

def py_tests(name, srcs, small = [], large = [], local = [], deps = [], **kwargs):
    """A py_test for each file of tests, and a suite of all of them.

    Args:
      name: of the suite.
      srcs: files of tests.
      small: those of them that need few seconds: `make bazel` runs them.
      large: those that need minutes.
      local: those that read files of the repository that nothing imports, which a sandbox does not show.
      deps: of each of them.
      **kwargs: of py_test.
    """
    for src in srcs:
        native.py_test(
            name = src[:-len(".py")],
            size = "small" if src in small else "large" if src in large else "medium",
            srcs = [src, "//tools/bazel:run_pytest.py"],
            main = "//tools/bazel:run_pytest.py",
            args = ["$(rootpath %s)" % src],
            data = ["//:pyproject.toml", "//:requirements.txt"],  # pytest's settings; new versions, new run
            tags = ["local"] if src in local else [],
            deps = deps,
            **kwargs
        )
    native.test_suite(name = name, tests = [src[:-len(".py")] for src in srcs])
