
e-15acmeaccounts"run-7*322026-03-02T09:15:00+01:00â#
a-mailallowdana"Looks right.