
e-11acmeaccounts"run-7*322026-03-02T09:15:00+01:00Ê7
r-1$The supplier confirmed by telephone.dana"0:52