"""Contents of a launch file: everything that a launch of a kernel in PTX needs."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

MAX_LAUNCH_FILE = 4 << 20
"""bytes of a launch file"""


class MemoryForm(BaseModel):
    """An allocation of the memory that a launch runs in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: int = Field(description="Its address, as pointers in arguments and in memory have it.", ge=0, lt=1 << 63)
    bytes: int = Field(description="Its size.", ge=0, lt=1 << 40)
    name: str = Field("", description="What reports call it; nothing: its address.")
    data: str = Field("", description="The `.npy` file of its bytes, beside this file; nothing: no byte is written.")
    written: str = Field("", description="The `.npy` file with a 1 for each byte that is written; nothing: all are.")


class ExpectForm(BaseModel):
    """The contents that an array has after the launch."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: str = Field(description="An array, as `--arg` takes it.")
    rtol: float = Field(default=1e-5, description="Difference that is accepted, as a part of the expected value.", ge=0)
    atol: float = Field(default=0, description="Difference that is accepted besides.", ge=0)


class LaunchForm(BaseModel):
    """A launch of a kernel in PTX."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: str = Field("", alias="$schema", description="The address of this schema, for editors.")
    ptx: str = Field("", description="The PTX or CUDA C++ (.cu), beside this one; nothing where the command names it.")
    entry: str = Field("", description="The kernel; nothing: the only one of the file.")
    grid: tuple[int, ...] = Field(description="CTAs, one to three extents.", min_length=1, max_length=3)
    block: tuple[int, ...] = Field(
        (), description="Threads of a CTA, likewise; nothing: as `.reqntid` or `.maxntid` of the PTX say.", max_length=3
    )
    dynamic_shared: int = Field(0, ge=0, description="Bytes of dynamic shared memory of a CTA.")
    cluster: tuple[int, ...] = Field((), description="CTAs of a cluster; nothing: as the kernel asks.", max_length=3)
    args: tuple[str, ...] | dict[str, str] = Field(
        (), description="An argument for each parameter, as `--arg` takes them: in order, or by the parameters' names."
    )
    expect: dict[str, str | ExpectForm] = Field(
        {}, description="Arrays after the launch, by names or positions of their parameters."
    )
    set: dict[str, str] = Field({}, description="Values of `__device__` and `__constant__` variables, as `--arg` has.")
    nvcc: str = Field(
        "", description="Flags of `nvcc` that define macros, name folders of headers, or choose a language."
    )
    link: tuple[str, ...] = Field((), description="More PTX files, beside this one, that the first is linked with.")
    memory: tuple[MemoryForm, ...] = Field((), description="The memory that the launch runs in, by addresses.")
    variables: dict[str, int] = Field({}, description="Addresses in `memory` of variables, by their names in PTX.")

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the arguments in the order of the file."""
        return tuple(self.args.values()) if isinstance(self.args, dict) else self.args
