"""The former name of `scope`, for modules that move to it when they are rebuilt."""

from .scope import is_own_cancel as is_own_cancel
