
e-14acmeaccounts"run-7*322026-03-02T09:15:00+01:00Ú=

a-pay-1187doneBooked by the bank."2026-03-02T16:00:00Z