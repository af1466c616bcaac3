"""Value learning with a replay of tuples, a target network copied by state dict, gather of actions."""

from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

from common import classes, fill, numbers

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super(DQN, self).__init__()
        self.layer1, self.layer2 = nn.Linear(n_observations, 12), nn.Linear(12, 12)
        self.layer3 = nn.Linear(12, n_actions)

    def forward(self, x):
        return self.layer3(F.relu(self.layer2(F.relu(self.layer1(x)))))


def main(compiled):
    policy_net, target_net = fill(torch, DQN(4, 3)), DQN(4, 3).double()
    target_net.load_state_dict(policy_net.state_dict())
    optimizer = optim.AdamW(policy_net.parameters(), lr=1e-2, amsgrad=True)
    memory = deque([], maxlen=100)
    for i in range(24):
        state, after = (torch.tensor(numbers(1, 4, seed=2 * i + k)) for k in (0, 1))
        memory.append(
            Transition(
                state,
                torch.tensor([[int(classes(1, 3, seed=i)[0])]]),
                after if i % 4 else None,
                torch.tensor([float(i % 3)]).double(),
            )
        )

    def learn(state_batch, action_batch, reward_batch, mask, non_final_next_states):
        state_action_values = policy_net(state_batch).gather(1, action_batch)
        with torch.no_grad():
            values = target_net(non_final_next_states).max(1).values
            next_state_values = torch.zeros(mask.size(0), dtype=torch.float64).masked_scatter(mask, values)
        expected = (next_state_values * 0.99) + reward_batch
        loss = nn.SmoothL1Loss()(state_action_values, expected.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
        optimizer.step()
        return loss

    learn = torch.compile(learn) if compiled else learn
    out = []
    for i in range(12):
        batch = Transition(*zip(*[memory[(3 * i + k) % 24] for k in range(8)]))
        mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), dtype=torch.bool)
        non_final = torch.cat([s for s in batch.next_state if s is not None])
        out.append(
            learn(torch.cat(batch.state), torch.cat(batch.action), torch.cat(batch.reward), mask, non_final).item()
        )
        target_net_state_dict, policy_net_state_dict = target_net.state_dict(), policy_net.state_dict()
        for key in policy_net_state_dict:
            target_net_state_dict[key] = policy_net_state_dict[key] * 0.1 + target_net_state_dict[key] * 0.9
        target_net.load_state_dict(target_net_state_dict)
    return out
