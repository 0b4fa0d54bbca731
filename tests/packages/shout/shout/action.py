"""The operation that lists the models that can shout. A key needs the scope `shout` for it."""

from inferstream.ext.calls import Action

LISTEN = Action("listen", scope="shout", closed="The list of models that can shout")
