"""The fast engine: it runs bytecode with a VM that is compiled from the modules of this package."""

from wsemu.model import IMPORTED_STATES, module_states

IMPORTED_STATES.update(module_states(__path__[0]))
