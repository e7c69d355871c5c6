"""What people see: boards, comparisons, the gate of submissions, publishing."""
