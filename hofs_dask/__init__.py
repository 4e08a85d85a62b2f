"""Higher order feature selection on Dask: which features matter, and which depend on each other.

The public names are listed in ``__init__.pyi``. Each is imported when it is first used, so that
``hofs-dask --help`` starts quickly.
"""

import lazy_loader

from hofs_dask.accessor import register_with_xarray

_attached, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("hofs-dask")
    return _attached(name)


register_with_xarray()
