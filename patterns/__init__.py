"""Transfer patterns of CudaDMA: objects whose methods are kernel code."""

if __name__ != "wsemu.patterns":
    raise ImportError("`patterns` is a source folder, not a package: import `wsemu.patterns`")
