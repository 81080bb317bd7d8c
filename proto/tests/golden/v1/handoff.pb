
e-17acmeaccounts"run-7*322026-03-02T09:15:00+01:00ò
paymentsrun-8p-pay