
e-09acmeaccounts"run-7*322026-03-02T09:15:00+01:00@ÂÕ
r-1X
inbox:billing@supplier.example*6
2026-03-01T00:00:00Z2026-03-03T00:00:00Zobservedo-page
j-iban-20"
accountsrun-7*
2026-03-02T08:00:00ZlogThe mailbox was taken over."dana*r-020:41