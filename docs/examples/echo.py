"""echo: for each public keyword a demonstration whose text is that keyword alone. It reads no record: a control."""

from dp_accounting import NoOpDpEvent

from dpicl import Demonstration, DemonstrationMechanism


class Echo(DemonstrationMechanism):
    name = "echo"
    knob = None

    def events(self, knob, sizes):
        return NoOpDpEvent()

    def release(self, private, context):
        return context.for_each_shot(lambda label: Demonstration(label, label))
