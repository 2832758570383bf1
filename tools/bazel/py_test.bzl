"""py_test for pytest: a file of tests does nothing when Python runs it, so pytest is the main program."""

def py_test(name, srcs, deps = [], data = [], **kwargs):
    native.py_test(
        name = name,
        srcs = srcs + ["//tools/bazel:run_pytest.py"],
        main = "//tools/bazel:run_pytest.py",
        args = ["$(rootpath %s)" % srcs[0]],
        data = data + ["//:pyproject.toml", "//:requirements.txt"],  # pytest's settings; new versions, new run
        deps = deps + ["//tests"],  # the package that the names tests.… are in
        **kwargs
    )
