"""What runs, proves, attacks and checks mechanisms."""

if __name__ != "dpicl.harness":  # a second copy of every class would be no good
    raise ImportError("'harness' is a part of the package dpicl: import 'dpicl.harness' instead.", name="harness")
